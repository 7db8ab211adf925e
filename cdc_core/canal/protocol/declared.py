"""Canal's messages, declared: names, numbers and types of their fields are the protocol.

`optional` are fields that their writers always write, also with the value 0: a oneof of one field in Canal's files.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "com.alibaba.otter.canal.protocol"
_KINDS = {
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
}


class PacketType(IntEnum):
    """What a Packet's body is."""

    HANDSHAKE = 1
    CLIENTAUTHENTICATION = 2
    ACK = 3
    SUBSCRIPTION = 4
    UNSUBSCRIPTION = 5
    GET = 6
    MESSAGES = 7
    CLIENTACK = 8
    SHUTDOWN = 9
    DUMP = 10
    HEARTBEAT = 11
    CLIENTROLLBACK = 12


# Each message: its fields as "number type name", with "optional" or "repeated" before where they are so. Enums are
# int32 here: the wire has them alike.
_PACKETS = {
    "Packet": "optional 1 int32 magic_number, optional 2 int32 version, 3 int32 type, optional 4 int32 compression, "
    "5 bytes body",
    "HeartBeat": "1 int64 send_timestamp, 2 int64 start_timestamp",
    "Handshake": "optional 1 string communication_encoding, 2 bytes seeds, 3 int32 supported_compressions",
    "ClientAuth": "1 string username, 2 bytes password, optional 3 int32 net_read_timeout, "
    "optional 4 int32 net_write_timeout, 5 string destination, 6 string client_id, 7 string filter, "
    "8 int64 start_timestamp",
    "Ack": "optional 1 int32 error_code, 2 string error_message",
    "ClientAck": "1 string destination, 2 string client_id, 3 int64 batch_id",
    "Sub": "1 string destination, 2 string client_id, 7 string filter",
    "Unsub": "1 string destination, 2 string client_id, 7 string filter",
    # 100 is this service's own: a client asks with `names_source`, and `source` is in the answer.
    "Get": "1 string destination, 2 string client_id, 3 int32 fetch_size, optional 4 int64 timeout, "
    "optional 5 int32 unit, optional 6 bool auto_ack, 100 bool names_source",
    "Messages": "1 int64 batch_id, repeated 2 bytes messages, 100 int64 source",
    "Dump": "1 string journal, 2 int64 position, optional 3 int64 timestamp",
    "ClientRollback": "1 string destination, 2 string client_id, 3 int64 batch_id",
    # These are of AdminProtocol.proto, where the packet is called Packet too, and has its body in another field.
    "AdminPacket": "optional 1 int32 magic_number, optional 2 int32 version, 3 int32 type, 4 bytes body",
    "ServerAdmin": "1 string action",
    "InstanceAdmin": "1 string destination, 2 string action",
    "LogAdmin": "1 string type, 2 string action, optional 3 string destination, optional 4 string file, "
    "optional 5 int32 count",
}
_ENTRIES = {
    "Pair": "1 string key, 2 string value",
    "Header": "optional 1 int32 version, 2 string logfileName, 3 int64 logfileOffset, 4 int64 serverId, "
    "5 string serverenCode, 6 int64 executeTime, optional 7 int32 sourceType, 8 string schemaName, "
    "9 string tableName, 10 int64 eventLength, optional 11 int32 eventType, repeated 12 Pair props, 13 string gtid",
    "Entry": "1 Header header, optional 2 int32 entryType, 3 bytes storeValue",
    "Column": "1 int32 index, 2 int32 sqlType, 3 string name, 4 bool isKey, 5 bool updated, optional 6 bool isNull, "
    "repeated 7 Pair props, 8 string value, 9 int32 length, 10 string mysqlType",
    "RowData": "repeated 1 Column beforeColumns, repeated 2 Column afterColumns, repeated 3 Pair props",
    "RowChange": "1 int64 tableId, optional 2 int32 eventType, optional 10 bool isDdl, 11 string sql, "
    "repeated 12 RowData rowDatas, repeated 13 Pair props, 14 string ddlSchemaName",
    "TransactionBegin": "1 int64 executeTime, 2 string transactionId, repeated 3 Pair props, 4 int64 threadId",
    "TransactionEnd": "1 int64 executeTime, 2 string transactionId, repeated 3 Pair props",
}


def _file(name: str, messages: dict[str, str]) -> descriptor_pb2.FileDescriptorProto:
    """The descriptor that Canal's own file of this name would have, but for its enums."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package=_PACKAGE, syntax="proto3")
    for message, fields in messages.items():
        declared = file.message_type.add(name=message)
        for field in fields.split(", "):
            _add(declared, field.split())
    return file


def _add(message: Any, words: list[str]) -> None:
    *labels, number, kind, name = words
    field = message.field.add(name=name, number=int(number), label=1)
    if "repeated" in labels:
        field.label = 3
    if kind in _KINDS:
        field.type = _KINDS[kind]
    else:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    if "optional" in labels:
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"{name}_present")


_POOL = descriptor_pool.DescriptorPool()
for _name, _messages in (("CanalProtocol.proto", _PACKETS), ("EntryProtocol.proto", _ENTRIES)):
    _POOL.Add(_file(_name, _messages))


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Packet, HeartBeat, Handshake, ClientAuth, Ack = map(_message, ("Packet", "HeartBeat", "Handshake", "ClientAuth", "Ack"))
ClientAck, Sub, Unsub, Get = map(_message, ("ClientAck", "Sub", "Unsub", "Get"))
Messages, Dump, ClientRollback = map(_message, ("Messages", "Dump", "ClientRollback"))
Pair, Header, Entry, Column = map(_message, ("Pair", "Header", "Entry", "Column"))
RowData, RowChange = map(_message, ("RowData", "RowChange"))
TransactionBegin, TransactionEnd = map(_message, ("TransactionBegin", "TransactionEnd"))
AdminPacket, ServerAdmin, InstanceAdmin, LogAdmin = map(
    _message, ("AdminPacket", "ServerAdmin", "InstanceAdmin", "LogAdmin")
)


def numbers(message: Any, *fields: str) -> tuple[int, ...]:
    """Returns the numbers of fields of a message, for those that read its bytes themselves."""
    return tuple(message.DESCRIPTOR.fields_by_name[field].number for field in fields)
