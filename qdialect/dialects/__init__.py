"""The dialects that qdialect provides."""
