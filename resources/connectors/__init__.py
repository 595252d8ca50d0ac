"""The connectors, one module per kind; `resources.discovery` finds them here, there is no registry."""
