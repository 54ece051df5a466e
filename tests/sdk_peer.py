"""A small server built with the SDK, as its users build theirs: `python -m tests.sdk_peer`."""

from __future__ import annotations

from mcp.server.mcpserver import Context, MCPServer


def sdk_server() -> MCPServer:
    """A server with two tools, one of which adds a third."""
    server = MCPServer("sdk-peer")

    @server.tool()
    def total(numbers: list[float]) -> float:
        """Add numbers up."""
        return sum(numbers)

    @server.tool()
    async def learn(name: str, ctx: Context) -> str:
        """Add a tool of that name."""
        server.add_tool(lambda: name, name=name, description="New here.")
        await ctx.notify_tools_changed()
        return "learnt"

    return server


if __name__ == "__main__":
    sdk_server().run()
