"""Find the tools that a request needs, in a program, without a server."""

import toolheads

scorer = toolheads.load_scorer("minilm")
scorer.index(toolheads.read_tools("tools.jsonl"))
for hit in scorer.search("book a flight to Izmir and mail me the ticket"):
    print(f"{hit.score:.3f}  {hit.tool.server}/{hit.tool.name}")
