"""SQL: the tables, the engine, the migrations at start, and the store that the loop commits through."""
