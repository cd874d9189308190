"""Kafka's configuration files, as text: one node, KRaft, loopback, no topic but declared ones.

Paths are relative to the data directory, in which the JVM runs: its own may hold what these formats give a meaning to.
"""

from schemas.limits import FETCH_BYTES, MAX_RECORD_BYTES

HOST = "127.0.0.1"
NODE_ID = 1
DATA = "kafka"
LOG = "broker.log"


def server_properties(*, port: int, controller_port: int) -> str:
    """Return `server.properties`.

    Group sessions may be as short as a second. The cleaner's buffer is small since it is allocated whole at start. A
    broker killed hard is refused as a duplicate by its successor's controller until its session ends, hence that one.
    """
    settings: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": NODE_ID,
        "controller.quorum.voters": f"{NODE_ID}@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": DATA,
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        "log.cleaner.dedupe.buffer.size": 2 << 20,
        "num.network.threads": 1,
        "num.io.threads": 2,
        "num.recovery.threads.per.data.dir": 1,
        "background.threads": 2,
        "message.max.bytes": MAX_RECORD_BYTES,
        "replica.fetch.max.bytes": FETCH_BYTES,
        "log.segment.bytes": 64 << 20,
        "controlled.shutdown.enable": "true",
        "broker.session.timeout.ms": 2000,
        "broker.heartbeat.interval.ms": 250,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


LOG4J = f"""\
status=error
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={LOG}
appender.file.filePattern={LOG}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d{{ISO8601}} %-5p %c{{1}}: %m%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=8MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=3
logger.config.name=org.apache.kafka.common.config.AbstractConfig
logger.config.level=warn
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
"""
