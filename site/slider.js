// Moves the edge between the two pictures of a slider with its range.
for (const range of document.querySelectorAll(".slider input")) {
  const move = () => {
    // The handle's middle runs from 20 pixels inside one edge to 20 pixels inside the other.
    const width = range.clientWidth, share = range.value / 100;
    range.parentElement.style.setProperty("--at", `${20 + share * (width - 40)}px`);
  };
  range.addEventListener("input", move);
  window.addEventListener("resize", move);
  move();
}
