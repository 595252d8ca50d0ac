"""Everything that opens something: connectors, the raw log, the warehouse, locks."""
