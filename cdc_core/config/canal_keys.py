"""Canal's keys that have no effect here. A key that is neither supported nor among these is unknown.

Source: Canal 1.1.8, `CanalConstants` and the files and Spring beans of `deployer/src/main/resources`.
"""

from __future__ import annotations

import re

_SERVICE = """
    id socketChannel destinations.expr file.flush.period
    aliyun.accessKey aliyun.secretKey aliyun.uid
"""
_INSTANCE = """
    memory.rawEntry transaction.size binlog.format binlog.image multi.stream.on
    network.receiveBufferSize network.sendBufferSize network.soTimeout
    filter.druid.ddl
    parser.parallel parser.parallelThreadSize parser.parallelBufferSize
    tsdb.dir tsdb.url tsdb.dbUsername tsdb.dbPassword tsdb.spring.xml
    global.mode global.manager.address global.spring.xml
    connectionCharset pwdPublicKey defaultDatabaseName rds.accesskey rds.secretkey rds.instanceId
"""
_TLS = """
    sslMode tlsVersions trustCertificateKeyStoreType trustCertificateKeyStoreUrl trustCertificateKeyStorePassword
    clientCertificateKeyStoreType clientCertificateKeyStoreUrl clientCertificateKeyStorePassword
"""
_KEYS = frozenset(
    [f"canal.{key}" for key in _SERVICE.split()]
    + [f"canal.instance.{key}" for key in _INSTANCE.split()]
    + [f"canal.instance.{server}.{key}" for server in ("master", "standby") for key in _TLS.split()]
) - {"canal.instance.master.sslMode"}
# Families whose keys are another program's, and the keys of one destination in canal.properties.
_FAMILIES = re.compile(
    r"canal\.admin\.(manager|register\..+)|canal\.mq\..+|(kafka|rocketmq|rabbitmq|pulsarmq)\..+"
    r"|canal\.instance\.[^.]+\.(mode|spring\.xml|manager\.address)"
)


def is_unsupported(key: str) -> bool:
    """Whether Canal knows the key and this service does nothing with it."""
    return key in _KEYS or _FAMILIES.fullmatch(key) is not None
