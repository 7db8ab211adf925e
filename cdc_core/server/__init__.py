"""All destinations of one configuration directory, on this server alone or shared with others."""
