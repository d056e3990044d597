"""Remaster in ComfyUI: two nodes that restore films and images with the program `remaster`."""


async def comfy_entrypoint():
    # Imported here, so that the parts without ComfyUI can be tested without it.
    from .nodes import RemasterExtension

    return RemasterExtension()
