# Two images without CUDA:
#   docker build --target train --tag recsys-train .
#   docker build --target serve --tag recsys-serve .
ARG PYTHON=3.12

FROM python:${PYTHON}-slim-bookworm AS build
ARG EXTRAS=recsys,serve,onnx,faiss
RUN python -m venv /opt/recsys
ENV PATH=/opt/recsys/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
COPY . .
RUN pip install --no-cache-dir ".[${EXTRAS}]"

FROM python:${PYTHON}-slim-bookworm AS train
RUN useradd --uid 10001 --create-home recsys \
    && mkdir /data /runs /models /logs \
    && chown recsys:recsys /data /runs /models /logs
COPY --from=build /opt/recsys /opt/recsys
ENV PATH=/opt/recsys/bin:$PATH \
    KERAS_BACKEND=tensorflow \
    PYTHONUNBUFFERED=1 \
    TF_CPP_MIN_LOG_LEVEL=2
# By number: Kubernetes cannot tell that a name is not root.
USER 10001:10001
WORKDIR /home/recsys
ENTRYPOINT ["recsys"]
CMD ["--help"]

FROM train AS serve
EXPOSE 8501
# That the process answers; whether a version is loaded, /readyz says.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8501/healthz', timeout=4)"]
CMD ["serve", "--model", "/models", "--name", "ranker", "--host", "0.0.0.0"]
