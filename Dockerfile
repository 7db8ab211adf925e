# Images of Sluice: docker build --target service|dagster|spark -t sluice-NAME .     docs/deploy.md
# What is installed, and how, is in deploy/install.sh; a test runs it without Docker.
FROM python:3.11-slim-bookworm AS base
ENV SLUICE_KERNELS=1 PYTHON=/usr/local/bin/python3
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PIP_NO_CACHE_DIR=1 PATH=/opt/sluice/bin:$PATH \
    SLUICE_CONF=/etc/sluice/conf SLUICE_DEFS=/etc/sluice/defs SLUICE_HOME=/var/lib/sluice/home
RUN groupadd --gid 10001 sluice \
 && useradd --uid 10001 --gid sluice --home-dir /var/lib/sluice --create-home --shell /usr/sbin/nologin sluice \
 && mkdir -p /etc/sluice/conf /etc/sluice/defs
COPY . /src

FROM base AS service
ARG SLUICE_EXTRAS=
RUN SLUICE_EXTRAS=$SLUICE_EXTRAS /src/deploy/install.sh service && rm -rf /src
USER 10001:10001
WORKDIR /var/lib/sluice
VOLUME /var/lib/sluice
EXPOSE 11111 11112 11113
ENTRYPOINT ["sluice-service"]

FROM base AS spark
ARG SLUICE_S3=1
RUN SLUICE_S3=$SLUICE_S3 /src/deploy/install.sh spark && rm -rf /src
USER 10001:10001
WORKDIR /var/lib/sluice
VOLUME /var/lib/sluice
ENTRYPOINT ["sluice-spark"]

FROM base AS dagster
RUN /src/deploy/install.sh dagster && rm -rf /src
ENV DAGSTER_HOME=/var/lib/sluice/dagster
USER 10001:10001
WORKDIR /var/lib/sluice
VOLUME /var/lib/sluice
EXPOSE 3000
ENTRYPOINT ["sluice-dagster"]
