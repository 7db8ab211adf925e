"""What `sluice monitor` prints: tables for people, facts for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from cdc_core.monitor.lag import ClientLag
from cdc_core.monitor.looking import Findings
from cdc_core.monitor.views import ClientView, ClusterView, DestinationView
from orchestration.commands.text import number, place, position, table, text


def show(found: Findings) -> None:
    """Prints a table for each cluster, then what is wrong."""
    console = Console()
    for cluster in found.picture.clusters:
        console.print(Text.assemble((cluster.name, "bold"), f": {cluster.away or sum_of(cluster)}"), soft_wrap=True)
        for server in cluster.servers:
            console.print(Text(f"  {server.address}  {server.http or 'a Java Canal server'}"), soft_wrap=True)
        if cluster.destinations:
            columns = table(text("destination"), number("client"), position("cursor"), text("behind"))
            for destination in cluster.destinations:
                for name, client in _rows(destination):
                    columns.add_row(*_cells(found, cluster, destination, name, client))
            console.print(columns)
    for trouble in found.verdict.troubles:
        where = f"{trouble.cluster} {trouble.subject}"
        console.print(Text.assemble((f"{trouble.kind} ", "red"), f"{where}: {trouble.text}"), soft_wrap=True)
        if trouble.remedy:
            console.print(Text(f" hint: {trouble.remedy}"), soft_wrap=True)


def sum_of(cluster: ClusterView) -> str:
    """How much a cluster has."""
    clients = sum(len(one.clients) for one in cluster.destinations)
    counts = ((len(cluster.servers), "server"), (len(cluster.destinations), "destination"), (clients, "client"))
    return ", ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for count, what in counts)


def _rows(destination: DestinationView) -> Iterator[tuple[Text, ClientView | None]]:
    """A row for each client, at least one; the first has the name and who runs it."""
    runs = destination.holder.address if destination.holder else "no server"
    standby = f"\n {len(destination.standby)} standby" if destination.standby else ""
    name = Text.assemble((destination.name, "bold"), f"\n {runs}{standby}")
    for client in destination.clients or (None,):
        yield name, client
        name = Text("")


def _cells(
    found: Findings, cluster: ClusterView, destination: DestinationView, name: Text, client: ClientView | None
) -> tuple[Text | str, ...]:
    if client is None:
        return name, "-", "-", "no client has subscribed"
    lag = found.picture.lag((cluster.name, destination.name, client.client_id))
    reader = f"\nread by {client.running.address}" if client.running else ""
    cursor = client.cursor.postion if client.cursor else None
    return name, str(client.client_id), Text(place(cursor)), Text(f"{distance(lag)}{reader}")


def distance(lag: ClientLag) -> str:
    """How far the client is behind, for people."""
    if lag.nbytes is None:
        return lag.why
    parts = [f"{lag.nbytes:,} bytes"]
    if lag.seconds is not None:
        parts.append(f"{lag.seconds:,.0f} s")
    if lag.files:
        parts.append(f"{lag.files:,} files")
    if lag.left_seconds is not None:
        parts.append(f"{max(0.0, lag.left_seconds) / 3600:,.1f} h until its file may be purged")
    return ", ".join(parts)


def facts(found: Findings) -> dict[str, Any]:
    """The same for programs."""
    return {
        "clusters": [_cluster_facts(found, one) for one in found.picture.clusters],
        "sources": [
            {
                "address": one.address,
                "end": one.journals.end.to_dict() if one.journals else None,
                "files": len(one.journals.logs) if one.journals else None,
                "seconds_behind": one.behind,
                "error": one.error,
            }
            for one in found.picture.sources.values()
        ],
        "alarms": [asdict(one) for one in found.verdict.troubles],
    }


def _cluster_facts(found: Findings, cluster: ClusterView) -> dict[str, Any]:
    destinations = [
        {
            "name": one.name,
            "runs_at": one.holder.address if one.holder else None,
            "standby": list(one.standby),
            "problems": list(one.problems),
            "clients": [_client_facts(found, cluster, one, client) for client in one.clients],
        }
        for one in cluster.destinations
    ]
    servers = [{"address": one.address, "kind": one.kind, "http": one.http} for one in cluster.servers]
    return {"name": cluster.name, "away": cluster.away, "servers": servers, "destinations": destinations}


def _client_facts(
    found: Findings, cluster: ClusterView, destination: DestinationView, client: ClientView
) -> dict[str, Any]:
    return {
        "client_id": client.client_id,
        "cursor": client.cursor.postion.to_dict() if client.cursor else None,
        "source": client.source,
        "read_by": client.running.address if client.running else None,
        "filter": client.filter,
        "lag": asdict(found.picture.lag((cluster.name, destination.name, client.client_id))),
    }
