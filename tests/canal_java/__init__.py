"""Sluice together with a Java Canal server, where CANAL_HOME names one."""
