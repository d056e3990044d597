// Which part of a picture is seen: numbers only.

const LARGEST = 16;

/**
 * `zoom` is "fit", or pixels of the screen for one of the picture. `x` and `y` are the point in the middle, as shares of the
 * picture. A room is `{ width, height }` in CSS pixels, and `density` the screen's pixels in one of these.
 */
export class Zoom {
  width = 0;
  height = 0;
  zoom = "fit";
  x = 0.5;
  y = 0.5;

  constructor(density = () => devicePixelRatio) {
    this.density = density;
  }

  setPicture(width, height) {
    if (width === this.width && height === this.height) return;
    Object.assign(this, { width, height, zoom: "fit", x: 0.5, y: 0.5 });
  }

  /** CSS pixels for one of the picture. */
  scale(room) {
    if (this.zoom !== "fit") return this.zoom / this.density();
    return Math.min(room.width / this.width, room.height / this.height);
  }

  /** Pixels of the screen for one of the picture. */
  now(room) {
    return this.scale(room) * this.density();
  }

  /** Zooms so that the point under the pointer, counted from the middle of the room, stays where it is. */
  to(zoom, room, [dx, dy] = [0, 0]) {
    const was = this.scale(room);
    this.zoom = zoom;
    const is = this.scale(room);
    this.x += (dx / was - dx / is) / this.width;
    this.y += (dy / was - dy / is) / this.height;
    this.#clamp(room);
  }

  by(factor, room, point) {
    const fit = Math.min(room.width / this.width, room.height / this.height) * this.density();
    const zoom = Math.min(this.now(room) * factor, LARGEST);
    this.to(zoom <= fit * 1.001 ? "fit" : zoom, room, point);
  }

  pan(dx, dy, room) {
    const scale = this.scale(room);
    this.x -= dx / (this.width * scale);
    this.y -= dy / (this.height * scale);
    this.#clamp(room);
  }

  /** Whether a part of the picture is outside. */
  pans(room) {
    const scale = this.scale(room);
    return this.width * scale > room.width + 1 || this.height * scale > room.height + 1;
  }

  /** Where the picture lies in a room. */
  place(room) {
    this.#clamp(room);
    const scale = this.scale(room);
    const [width, height] = [this.width * scale, this.height * scale];
    return { width, height, left: room.width / 2 - this.x * width, top: room.height / 2 - this.y * height };
  }

  /** The picture does not leave its room, and one that is smaller stays in the middle. */
  #clamp(room) {
    const limit = (at, whole, space) => (whole <= space ? 0.5 : Math.min(1 - space / whole / 2, Math.max(space / whole / 2, at)));
    const scale = this.scale(room);
    this.x = limit(this.x, this.width * scale, room.width);
    this.y = limit(this.y, this.height * scale, room.height);
  }
}
