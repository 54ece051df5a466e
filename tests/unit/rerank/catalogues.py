"""Tools that the tests of reranking choose from."""

from toolheads.domain import Tool


def made(*pairs):
    """Tools of (name, description), without a server."""
    return [Tool(name, name, description=description) for name, description in pairs]


GARDEN = made(
    ("plant_seeds", "Put seeds of a flower or vegetable into a bed"),
    ("water_bed", "Water the plants of one bed"),
    ("prune_tree", "Cut dead branches off a tree"),
    ("mow_lawn", "Cut the grass of the lawn"),
    ("list_beds", "List all beds and what grows in them"),
    ("order_compost", "Order bags of compost from the shop"),
    ("getFrostWarning", "Tell whether the coming night brings frost"),
    ("harvest_fruit", "Pick ripe fruit from a tree or bush"),
)
