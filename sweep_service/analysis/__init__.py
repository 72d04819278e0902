"""What a stored sweep says: plain data for JSON and for figures."""
