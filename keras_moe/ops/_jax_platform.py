import jax


def jax_platform() -> str:
    """The platform that JAX computes on, such as `"cpu"` or `"gpu"`."""
    device = jax.config.jax_default_device
    # A device, its platform's name, or the first one there is.
    return getattr(device, "platform", device) or jax.default_backend()
