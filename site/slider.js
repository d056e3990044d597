// Moves the edge between the two pictures of a slider with its range.
for (const range of document.querySelectorAll(".slider input")) {
  const move = () => {
    const share = range.valueAsNumber;
    // The handle's middle runs from 20 pixels inside one edge to 20 pixels inside the other.
    range.parentElement.style.setProperty("--at", `calc(20px + (100% - 40px) * ${share / 100})`);
    range.setAttribute("aria-valuetext", `${Math.round(share)} % before`);
  };
  range.addEventListener("input", move);
  // A finger on the handle opens no sidebar.
  for (const kind of ["touchstart", "touchmove"]) {
    range.addEventListener(kind, (event) => event.stopPropagation(), { passive: true });
  }
  move();
}
