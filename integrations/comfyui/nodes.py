"""The nodes."""

import json
import math
import os
import tempfile
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

import comfy.model_management as management
import folder_paths
import numpy
import torch
from comfy_api.v0_0_2 import ComfyExtension, InputImpl, io, ui
from PIL import Image

from . import choices, places, program, progress, sentences, sources
from .refused import Refused
from .running import Run, interrupted, make_room

_KNOWN = program.Known()
_CATEGORY = "Remaster"
# Frames per second of a batch. It changes no pixel, but the stream of frames has to name one.
_RATE = 25


def _folders() -> List[str]:
    """ComfyUI's folders that may hold models, those of `extra_model_paths.yaml` too."""
    folders = [os.path.join(folder_paths.models_dir, "SEEDVR2")]
    for name in ("seedvr2", "diffusion_models", "vae", "upscale_models"):
        if name in folder_paths.folder_names_and_paths:
            folders += folder_paths.get_folder_paths(name)
    return folders


def _models() -> choices.Catalogue:
    return _KNOWN.models(_folders())


def _offered() -> choices.Catalogue:
    """Files to choose from. Without the program a node still loads; it says what is missing when it runs."""
    try:
        return _models()
    except Refused:
        return choices.Catalogue()


def _common() -> List[Any]:
    """Inputs that both nodes have, first those that most people need."""
    known = _offered()
    return [
        io.Combo.Input(
            "model",
            options=known.model_names(),
            default="3b",
            tooltip="3b, 7b, 7b-sharp and 3b-first are SeedVR2: the best file that is installed. anime is inside "
            "the program: quick, for animation. Others are files in ComfyUI's model folders.",
        ),
        io.Combo.Input(
            "resolution",
            options=list(choices.SIZES),
            default=choices.AUTO,
            tooltip="Short side in pixels, or a factor. auto is 1080, or the size of the input if that is larger.",
        ),
        io.Combo.Input(
            "color",
            options=[choices.AUTO, *program.colors()],
            default=choices.AUTO,
            tooltip="How colours are matched to the input. auto is lab for SeedVR2, and none for upscalers.",
        ),
        io.Float.Input(
            "strength",
            default=1.0,
            min=0.0,
            max=1.0,
            step=0.05,
            tooltip="1 is the restored picture, 0 the input. Lower it if the result looks too sharp or invented.",
        ),
        io.Int.Input(
            "seed",
            default=42,
            min=0,
            max=choices.SEED_MAX,
            control_after_generate=False,
            tooltip="Seed of the noise. Upscalers have none.",
        ),
        io.Combo.Input(
            "vae",
            options=known.vae_names(),
            default=choices.AUTO,
            optional=True,
            tooltip="The VAE's file. auto is the installed one.",
        ),
        io.String.Input(
            "ram",
            default="",
            optional=True,
            tooltip="Memory that the run may use: 8G, or 80% of the machine. Empty: what is free, less 512 MiB.",
        ),
    ]


def _options(model: Any, resolution: Any, color: Any, strength: Any, seed: Any, vae: Any, ram: Any) -> Dict[str, Any]:
    options, _ = choices.model_options(model, vae, seed, _models())
    options.update(choices.picture_options(resolution, color, strength, ram, program.colors()))
    # Where words such as 3b are looked up; the program searches four levels deep. A new ComfyUI may not have it yet.
    if os.path.isdir(folder_paths.models_dir):
        options["model_dir"] = folder_paths.models_dir
    return options


def _model_state(model: Any, vae: Any) -> List[Any]:
    """What changes when a model file is replaced, for ComfyUI's cache."""
    known = _offered()
    named = [known.models.get(model), known.vaes.get(vae)]
    # A word stands for the best of all files.
    files = [f for f in named if f] if model not in choices.WORDS else [*known.models.values(), *known.vaes.values()]
    state = []
    for file in files:
        try:
            state.append(sorted(places.identity(file.path).items()))
        except Refused:
            state.append([file.path])
    return state


class _Restore(io.ComfyNode):
    """What ComfyUI asks both nodes before a run."""

    @classmethod
    def validate_inputs(cls, model=None):
        """True, or the sentence that ComfyUI shows before it starts anything."""
        if model is None:
            # It arrives over a link, and is checked when it is there.
            return True
        try:
            choices.model_options(model, choices.AUTO, 0, _models())
        except Refused as error:
            return str(error)
        return True

    @classmethod
    def fingerprint_inputs(cls, model=None, vae=choices.AUTO, **_others):
        return _model_state(model, vae)


class RestoreVideo(_Restore):
    """A film by its file: nothing of it is held in ComfyUI's memory."""

    # The film of each node, to see that it was deleted, and how often that happened.
    _made: Dict[str, str] = {}
    _lost: Dict[str, int] = {}
    _lock = threading.Lock()

    @classmethod
    def define_schema(cls):
        shared = _common()
        return io.Schema(
            node_id="RemasterRestoreVideo",
            display_name="Restore video (Remaster)",
            category=_CATEGORY,
            description="Restores and upscales a film with SeedVR2 or an upscaler. Sound, subtitles and timestamps are "
            "kept. An interrupted film goes on where it stopped when it is queued again.",
            is_output_node=True,
            inputs=[
                io.Video.Input("video", tooltip="The film to restore."),
                *shared[:5],
                io.String.Input(
                    "filename_prefix",
                    default="video/remaster",
                    tooltip="Folder and start of the film's name in ComfyUI's output folder.",
                ),
                io.Combo.Input(
                    "format",
                    options=list(choices.FORMATS),
                    default=choices.AUTO,
                    optional=True,
                    tooltip="Container. auto is that of the source if it can be written, else mkv.",
                ),
                *shared[5:],
                io.Combo.Input(
                    "hdr",
                    options=list(choices.KEEP_OR_REFUSE),
                    default="refuse",
                    optional=True,
                    tooltip="HDR films: refuse them, or keep the signal as it is.",
                ),
                io.Combo.Input(
                    "damaged",
                    options=list(choices.KEEP_OR_REFUSE),
                    default="refuse",
                    optional=True,
                    tooltip="Damaged films: refuse them, or keep what can be decoded.",
                ),
            ],
            outputs=[io.Video.Output(display_name="video")],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def fingerprint_inputs(cls, model=None, vae=choices.AUTO, **_others):
        node = str(cls.hidden.unique_id) if cls.hidden else ""
        with cls._lock:
            made = cls._made.get(node)
            if made is not None and not os.path.exists(made):
                # ComfyUI would pass on a film that was deleted.
                del cls._made[node]
                cls._lost[node] = cls._lost.get(node, 0) + 1
            return [cls._lost.get(node, 0), _model_state(model, vae)]

    @classmethod
    def execute(
        cls,
        video,
        model,
        resolution,
        color,
        strength,
        seed,
        filename_prefix,
        format=choices.AUTO,
        vae=choices.AUTO,
        ram="",
        hdr="refuse",
        damaged="refuse",
    ) -> io.NodeOutput:
        options = _options(model, resolution, color, strength, seed, vae, ram)
        for name, value in (("hdr", hdr), ("damaged", damaged)):
            if choices.one_of(name, value, choices.KEEP_OR_REFUSE) == "keep":
                options[name] = "keep"
        wanted = choices.one_of("format", format, choices.FORMATS)
        try:
            temporary = folder_paths.get_temp_directory()
            source = sources.source_of(video, temporary, InputImpl.VideoFromFile, management.processing_interrupted)
        except sources.Interrupted:
            raise interrupted() from None
        if source.drawn:
            # What browsers and Save Video take. A source of FFV1 in RGB would stay that.
            options["pixel_format"] = "yuv420p"
            wanted = "mp4" if wanted == choices.AUTO else wanted
        output = folder_paths.get_output_directory()
        # Without what changes from run to run: an interrupted film has to be found again.
        key = places.key(source.identity, {**options, "ram": None})
        film = places.film(output, filename_prefix, source.stem, key, places.ending(source.path, wanted))
        _run(source.path, film, options, cls.hidden.unique_id)
        with cls._lock:
            cls._made[str(cls.hidden.unique_id)] = film
        folder = os.path.relpath(os.path.dirname(film), os.path.abspath(output))
        saved = ui.SavedResult(os.path.basename(film), "" if folder == "." else folder, io.FolderType.output)
        return io.NodeOutput(InputImpl.VideoFromFile(film), ui=ui.PreviewVideo([saved]))


def _run(source: str, film: str, options: Dict[str, Any], node_id: Optional[str]) -> None:
    remaster = program.package()
    try:
        os.makedirs(os.path.dirname(film), exist_ok=True)
    except OSError as error:
        raise Refused(f"cannot make {os.path.dirname(film)}: {error.strerror}; set filename_prefix to another folder") from None
    run = Run(node_id, film)
    try:
        run.done(remaster.restore(source, film, **options, **make_room(), on_progress=run.report, cancel=run))
    except remaster.Cancelled:
        raise interrupted() from None
    except remaster.RemasterError as error:
        raise Refused(sentences.sentence(error.message, error.kind, program.binary(), film)) from None


class RestoreImages(_Restore):
    """Stills and short batches, which pass through pipes."""

    @classmethod
    def define_schema(cls):
        shared = _common()
        return io.Schema(
            node_id="RemasterRestoreImages",
            display_name="Restore images (Remaster)",
            category=_CATEGORY,
            description="Restores and upscales images with SeedVR2 or an upscaler. For films use Restore video, which "
            "needs no memory for their frames, keeps their sound and resumes.",
            inputs=[
                io.Image.Input("images", tooltip="Images to restore, with or without alpha."),
                *shared[:5],
                io.Boolean.Input(
                    "one_clip",
                    default=True,
                    optional=True,
                    tooltip="On: a batch is a clip, whose frames help each other. Off: each image stands by itself.",
                ),
                *shared[5:],
            ],
            outputs=[io.Image.Output(display_name="images")],
            hidden=[io.Hidden.unique_id],
        )

    @classmethod
    def execute(
        cls, images, model, resolution, color, strength, seed, one_clip=True, vae=choices.AUTO, ram=""
    ) -> io.NodeOutput:
        options = _options(model, resolution, color, strength, seed, vae, ram)
        if images.ndim != 4 or images.shape[0] == 0 or images.shape[3] not in (3, 4):
            raise Refused("the images are not a batch of RGB or RGBA pictures; connect an IMAGE of 3 or 4 channels")
        with tempfile.TemporaryDirectory(prefix="remaster-") as folder:
            if not one_clip and len(images) > 1:
                options["scenes"] = _each_by_itself(len(images), folder)
            return io.NodeOutput(_restored(images, options, cls.hidden.unique_id))


def _each_by_itself(count: int, folder: str) -> str:
    """A list of shots in which each image is one."""
    path = os.path.join(folder, "shots.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"version": 1, "frames": count, "starts": list(range(count))}, file)
    return path


def _frames(images: torch.Tensor, alpha: bool) -> Iterator[numpy.ndarray]:
    for image in images:
        if not bool(torch.isfinite(image).all()):
            raise Refused("an image holds values that are not numbers; check the node that made it")
        values = image.detach().to(device="cpu", dtype=torch.float32).clamp(0, 1).numpy()
        yield numpy.rint(values * 65535).astype(numpy.uint16) if alpha else values


def _restored(images: torch.Tensor, options: Dict[str, Any], node_id: Optional[str]) -> torch.Tensor:
    remaster = program.package()
    run = Run(node_id)
    # The program has alpha in 16 bits only, which is more than the eye or a PNG has.
    alpha = images.shape[3] == 4
    restored: Optional[torch.Tensor] = None
    done = 0
    begun = time.monotonic()
    try:
        # Left by whatever error, it ends the program.
        with remaster.restore_frames(
            _frames(images, alpha),
            rate=_RATE,
            count=len(images),
            format="rgba16" if alpha else "rgbf32",
            on_progress=run.report,
            cancel=run,
            **options,
            **make_room(),
        ) as frames:
            for frame in frames:
                if restored is None:
                    restored = _room((len(images), *frame.shape))
                values = torch.from_numpy(numpy.array(frame, dtype=numpy.float32))
                restored[done] = values / 65535 if alpha else values.clamp(0, 1)
                done += 1
                run.show(done / len(images), _said(done, len(images), begun), _small(restored[done - 1], run))
    except remaster.Cancelled:
        raise interrupted() from None
    except remaster.RemasterError as error:
        raise Refused(sentences.sentence(error.message, error.kind, program.binary())) from None
    if restored is None or done != len(images):
        raise Refused(f"Remaster gave {done} of {len(images)} images back; queue it again")
    return restored


def _room(shape: Tuple[int, ...]) -> torch.Tensor:
    """Where restored images are gathered. Memory that is not there would end ComfyUI without a word."""
    needed, free = 4 * math.prod(shape), int(management.get_free_memory(torch.device("cpu")))
    if needed > free:
        raise Refused(
            f"{shape[0]:,} images of {shape[2]} x {shape[1]} need {needed / 1e9:.1f} GB of memory, but {free / 1e9:.1f} GB are "
            "free; choose a smaller resolution, or make a film of them and use Restore video (Remaster)"
        )
    return torch.empty(shape, dtype=torch.float32)


def _said(done: int, total: int, begun: float) -> str:
    seconds = max(time.monotonic() - begun, 1e-3)
    return progress.line("restore", done, total, done / seconds, None)


def _small(image: torch.Tensor, run: Run) -> Optional[Image.Image]:
    if not run.time_for_picture():
        return None
    step = max(1, max(image.shape[0], image.shape[1]) // progress.PICTURE_PIXELS)
    return Image.fromarray((image[::step, ::step, :3] * 255).byte().numpy())


class RemasterExtension(ComfyExtension):
    async def get_node_list(self):
        return [RestoreVideo, RestoreImages]
