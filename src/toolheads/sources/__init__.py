"""Where tools come from: MCP servers, OpenAPI descriptions, lists of other frameworks."""
