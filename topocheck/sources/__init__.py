"""Where raw text comes from. A source knows no meaning."""
