"""How much of the disk a destination may use, by its configuration."""

from __future__ import annotations

import structlog

from cdc_core.config.models import InstanceConfig
from cdc_core.store.disk.room import room
from cdc_core.store.disk.volume import VOLUME
from cdc_core.store.disk.volumes import is_store

log = structlog.get_logger(__name__)

_LEAST_BYTES = 16 << 20  # of less it makes no use


def disk_room(config: InstanceConfig) -> int:
    """In bytes; 0 for nothing, also where the disk has less than memory."""
    if config.store_bytes != "auto":
        return config.store_bytes
    try:
        found = _found(config)
    except OSError:  # it cannot even be looked at
        return 0
    if found > _least(config):
        return found
    place = config.store_dir / config.destination if config.store_dir else None
    if place is not None and is_store(place) and any(place.glob(f"*{VOLUME}")):
        return _least(config)  # it may have rows that the source has no more
    log.warning("nothing is kept on disk: it has less room than memory", destination=config.destination, room=found)
    return 0


def room_now(config: InstanceConfig) -> int:
    """The same with `auto` for a store that is in use: it has at least as much as memory. Raises OSError."""
    return max(_found(config), _least(config))


def _found(config: InstanceConfig) -> int:
    return room(config.store_dir / config.destination) if config.store_dir else 0


def _least(config: InstanceConfig) -> int:
    return max(_LEAST_BYTES, config.capacity_bytes if config.capacity_items is None else 0)
