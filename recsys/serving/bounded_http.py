from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 2**16


class BoundedHttp(HttpToolsProtocol):
    """HTTP as uvicorn has it, but for heads of requests that do not end.

    Its parser keeps what it has read of a head, however much that is.
    """

    _head_bytes = 0  # Received since something else than a head has come.

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        too_long = self._head_bytes > MAX_HEAD_BYTES
        if too_long and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long.")

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._head_bytes = 0

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head_bytes = 0
