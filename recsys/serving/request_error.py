from recsys.errors import FileError


class RequestError(FileError):
    """A request that cannot be answered, with the place where it is wrong.

    Attributes:
        status: HTTP status of the answer.

    Example:
    >>> print(RequestError.at("instances[3].age", "a number", "'x'"))
    instances[3].age: expected a number. Received: 'x'
    """

    status = 400


class ForbiddenError(RequestError):
    """This client may not ask for it."""

    status = 403


class ConflictError(RequestError):
    """The server is in no state to do it."""

    status = 409


class NotFoundError(RequestError):
    """There is no such model, version or page."""

    status = 404


class TooLargeError(RequestError):
    """More bytes or rows than the server takes."""

    status = 413
