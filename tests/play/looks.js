({
  // How many colours the game's canvas has; 1 where it is blank.
  colours(canvas = document.querySelector("#canvas")) {
    const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const seen = new Set();
    for (let k = 0; k < data.length; k += 4) seen.add(data[k] * 65536 + data[k + 1] * 256 + data[k + 2]);
    return seen.size;
  },
  // How many worlds of the gallery are drawn.
  drawn() {
    return [...document.querySelectorAll(".worlds canvas")].filter((canvas) => this.colours(canvas) > 8).length;
  },
  // Texts whose contrast is below 4.5.
  faint() {
    const channel = (value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
    const light = (colour) => {
      const [red, green, blue] = colour.match(/[\d.]+/g).map((value) => channel(value / 255));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const ground = (element) => {
      const own = getComputedStyle(element).backgroundColor;
      return own.endsWith(", 0)") ? ground(element.parentElement) : own;
    };
    const written = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    return [...document.querySelectorAll("h1, h2, p, span, b, li, label, button, select, strong")]
      .filter((element) => element.offsetParent && written(element) && !element.closest(".hidden, [data-off]"))
      .map((element) => {
        const [more, less] = [light(getComputedStyle(element).color), light(ground(element))].sort((a, b) => b - a);
        return [element.textContent.trim().slice(0, 40), (more + 0.05) / (less + 0.05)];
      })
      .filter(([, ratio]) => ratio < 4.5);
  },
  // Controls without a name, and those that are too small for a finger.
  unnamed() {
    return [...document.querySelectorAll("button, select, input, canvas")]
      .filter((element) => element.offsetParent && !(element.ariaLabel || element.textContent.trim() || element.labels?.length))
      .map((element) => element.outerHTML);
  },
  small() {
    return [...document.querySelectorAll("button, select")]
      .filter((element) => element.offsetParent && element.offsetHeight < 34)
      .map((element) => element.outerHTML);
  },
})
