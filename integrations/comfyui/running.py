"""A run of the program inside ComfyUI: its progress bar, its interrupt button, its memory."""

import os
import time
from typing import Any, Dict, Optional

import comfy.model_management as management
import comfy.utils
from server import PromptServer

from . import choices, program, progress


class Run:
    """What the program reports goes to the node `node_id`. Also the token that says whether to stop."""

    def __init__(self, node_id: Optional[str], film: Optional[str] = None) -> None:
        self._node = node_id
        self._bar = comfy.utils.ProgressBar(progress.STEPS, node_id=node_id)
        self._unfinished = film + ".remaster" if film else None
        self._looked = time.monotonic()
        self._piece: Optional[str] = None
        self._interrupted = False

    def is_set(self) -> bool:
        return self._interrupted or management.processing_interrupted()

    def report(self, news: Any) -> None:
        """Shows the news of a run."""
        share = news.share if news.share is not None else (news.done / news.total if news.total else 0.0)
        self.show(share, progress.line(news.phase, news.done, news.total, news.rate, news.eta_seconds), self._picture())

    def show(self, share: float, text: str, picture: Optional[Any] = None) -> None:
        preview = ("JPEG", picture, progress.PICTURE_PIXELS) if picture is not None else None
        try:
            self._bar.update_absolute(min(progress.STEPS, round(share * progress.STEPS)), progress.STEPS, preview)
        except management.InterruptProcessingException:
            # ComfyUI's bar raises this and forgets that it was interrupted. The program has to be stopped first.
            self._interrupted = True
        if PromptServer.instance is not None and self._node is not None:
            PromptServer.instance.send_progress_text(text, self._node, PromptServer.instance.client_id)

    def done(self, film: Any) -> None:
        """Shows what came out, of a film that was restored now or before."""
        if film.skipped:
            self.show(1.0, "this film was there already")
        else:
            self.show(1.0, f"{film.frames:,} frames, {film.width} x {film.height}")

    def time_for_picture(self) -> bool:
        now = time.monotonic()
        if now - self._looked < progress.PICTURE_SECONDS:
            return False
        self._looked = now
        return True

    def _picture(self) -> Optional[Any]:
        """A restored frame out of the folder of unfinished work, when a piece of the film was begun since the last one."""
        if self._unfinished is None or not self.time_for_picture() or not os.path.isdir(self._unfinished):
            return None
        for piece in progress.newest_pieces(self._unfinished):
            if piece == self._piece:
                return None
            picture = progress.first_frame(piece)
            if picture is not None:
                self._piece = piece
                return picture
        return None


def interrupted() -> BaseException:
    """What ComfyUI takes for an interrupt, with its flag cleared as if it had raised it itself."""
    try:
        management.throw_exception_if_processing_interrupted()
    except management.InterruptProcessingException as stop:
        return stop
    return management.InterruptProcessingException()


def make_room() -> Dict[str, Any]:
    """Unloads ComfyUI's models, and gives the memory that is free then as an option."""
    management.unload_all_models()
    management.soft_empty_cache()
    device = management.get_torch_device()
    # Elsewhere ComfyUI computes in host memory, or does not know what is free.
    if getattr(device, "type", "cpu") not in ("cuda", "xpu"):
        return {}
    limit = choices.vram(program.ask("devices"), int(management.get_free_memory(device)))
    return {"vram": limit} if limit else {}
