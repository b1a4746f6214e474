"""PTX front end: text to Module (parser) to core program (lower, rows, fragments)."""
