"""Configuration: Canal's properties files, read into frozen models."""

from cdc_core.config.load import Report, destinations, load_instance, load_service, stamp
from cdc_core.config.models import InstanceConfig, ServiceConfig

__all__ = ["InstanceConfig", "Report", "ServiceConfig", "destinations", "load_instance", "load_service", "stamp"]
