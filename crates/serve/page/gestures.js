// Mouse, touch and keys on the pictures of `compare.js`.

export function gestures(stage, divider, compare) {
  pointer(stage, divider, compare);
  wheel(stage, compare);
  keys(stage, divider, compare);
}

/** From the middle of the picture under the pointer. */
function fromMiddle(stage, event) {
  const boxes = [...stage.querySelectorAll(".layer")].map((layer) => layer.getBoundingClientRect());
  const inside = (box) =>
    event.clientX >= box.left && event.clientX <= box.right && event.clientY >= box.top && event.clientY <= box.bottom;
  const box = boxes.find(inside) ?? stage.getBoundingClientRect();
  return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
}

function pointer(stage, divider, compare) {
  const pointers = new Map();
  let drags;
  const divide = (event) => {
    const box = stage.getBoundingClientRect();
    compare.divider = ((event.clientX - box.left) / box.width) * 100;
  };
  const spread = () => {
    const [a, b] = [...pointers.values()];
    return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    stage.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    // While all of the picture is seen there is nothing to move but the divider.
    const divides = compare.mode === "split" && (event.target === divider || !compare.pans);
    drags = pointers.size > 1 ? "pinch" : divides ? "divider" : "picture";
    if (drags === "divider") divide(event);
  });
  stage.addEventListener("pointermove", (event) => {
    const was = pointers.get(event.pointerId);
    if (!was) return;
    const apart = pointers.size > 1 && spread();
    pointers.set(event.pointerId, event);
    if (drags === "divider") divide(event);
    else if (drags === "picture") compare.pan(event.clientX - was.clientX, event.clientY - was.clientY);
    else if (pointers.size === 2 && apart) compare.zoomBy(spread() / apart, fromMiddle(stage, event));
  });
  for (const end of ["pointerup", "pointercancel"]) stage.addEventListener(end, (event) => pointers.delete(event.pointerId));
  stage.addEventListener("dblclick", (event) => compare.zoomTo(compare.fits ? 1 : "fit", fromMiddle(stage, event)));
}

/** The wheel scrolls the page unless the picture was clicked, so that nobody gets stuck above it. */
function wheel(stage, compare) {
  stage.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !stage.contains(document.activeElement)) return;
      event.preventDefault();
      compare.zoomBy(2 ** (-event.deltaY / 300), fromMiddle(stage, event));
    },
    { passive: false },
  );
}

function keys(stage, divider, compare) {
  const sides = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
  const moves = { ArrowLeft: -2, ArrowRight: 2, ArrowDown: -2, ArrowUp: 2, PageDown: -10, PageUp: 10, Home: -100, End: 100 };
  const plain = {
    ArrowLeft: () => compare.step(-1),
    ArrowRight: () => compare.step(1),
    "+": () => compare.zoomBy(1.5),
    "=": () => compare.zoomBy(1.5),
    "-": () => compare.zoomBy(1 / 1.5),
    0: () => compare.zoomTo("fit"),
    1: () => compare.zoomTo(1),
    b: () => {
      compare.mode = compare.mode === "before" ? "after" : "before";
    },
    d: () => {
      compare.mode = "split";
    },
    s: () => {
      compare.mode = "side";
    },
  };
  stage.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // Caps Lock makes capitals of letters.
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const onDivider = event.target === divider && moves[event.key] !== undefined;
    if (event.shiftKey && sides[event.key]) compare.pan(...sides[event.key]);
    else if (onDivider) compare.divider += moves[event.key];
    else if (plain[key]) plain[key]();
    else return;
    event.preventDefault();
  });
}
