import inspect

import keras

LOGGERS = (keras.callbacks.CSVLogger, keras.callbacks.TensorBoard)


def move_before_loggers(callback: keras.callbacks.Callback) -> None:
    """Moves a callback ahead of the loggers, so that they see its values.

    Keras passes one `logs` dict from callback to callback in the order of
    their list: what a callback adds is seen by those after it alone. The
    progress bar and the history always stand last; a `CSVLogger` or
    `TensorBoard` stands where its user has put it.

    To be called from the callback's `set_model`: Keras gives a callback no
    way to its list, so the list is found in the call stack, above
    `set_model`. Where no list is there, nothing is moved.

    Args:
        callback: The callback whose `set_model` is running.
    """
    order = _list_that_holds(callback)
    for position, other in enumerate(order):
        if other is callback:
            return
        if isinstance(other, LOGGERS):
            order.remove(callback)
            order.insert(position, callback)
            return


def _list_that_holds(
    callback: keras.callbacks.Callback,
) -> list[keras.callbacks.Callback]:
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, keras.callbacks.CallbackList):
            return owner.callbacks if callback in owner.callbacks else []
        frame = frame.f_back
    return []
