"""The monitor of several clusters: servers, destinations, clients, lag, history and alarms. It changes nothing."""
