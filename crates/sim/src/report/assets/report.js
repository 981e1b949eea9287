"use strict";
const source = document.getElementById("figures").textContent;
const options = { responsive: true, displaylogo: false, displayModeBar: false };
const dark = window.matchMedia("(prefers-color-scheme: dark)");
// What stands for the colours of lines, axes and text on a dark page.
const onDark = {
  "#0072b2": "#5ab4ea", "#d55e00": "#f5924a", "#009e73": "#37cfa2", "#b8558f": "#e38fbf", "#8a6d00": "#d8b53a",
  "#3c9fd6": "#9ad6f7", "#7a5195": "#bf9ad8", "#555555": "#b4bcc8", "#475569": "#a3b1c4", "#94a3b8": "#8fa0b5",
  "#334155": "#dbe3ec", "#e6eaef": "#334155", "#9aa5b1": "#64748b",
};
const themed = (text) => (dark.matches ? text.replace(/#[0-9a-f]{6}/g, (colour) => onDark[colour] ?? colour) : text);

// Between two of 1, 2, 5, 10 a logarithmic axis would have no tick at all: there the library chooses them. Elsewhere the
// library would print 20 as 2, and 50 as 5: up to four powers of ten are printed whole.
function ticks(axis, values) {
  if (axis?.type !== "log") return;
  let [least, most] = [Infinity, 0];
  for (const value of values.flat()) {
    if (value > 0) [least, most] = [Math.min(least, value), Math.max(most, value)];
  }
  if (most < 4 * least) {
    delete axis.dtick;
  } else if (axis.dtick === "D2" && least >= 1e-3 && most < 1e5 && most < 1e4 * least) {
    const powers = Array.from({ length: 11 }, (_, at) => at - 4);
    axis.tickvals = powers.flatMap((power) => [1, 2, 5].map((digit) => Number(digit + "e" + power)));
    axis.ticktext = axis.tickvals.map((value) => value.toLocaleString("en", { maximumSignificantDigits: 1 }));
    delete axis.dtick;
  }
}

// On a narrow screen every name of a legend has a row of its own: the plot keeps its height beside many.
function room(data, layout, element) {
  const named = layout.showlegend === false ? 0 : data.filter(({ showlegend }) => showlegend !== false).length;
  if (element.clientWidth < 420 && named > 4) layout.height += 19 * (named - 4);
}

function draw() {
  JSON.parse(themed(source)).forEach(({ data, layout }, index) => {
    if (data.every(({ x, y }) => Array.isArray(x) && Array.isArray(y))) {
      ticks(layout.xaxis, data.map(({ x }) => x));
      ticks(layout.yaxis, data.map(({ y }) => y));
    }
    room(data, layout, document.getElementById("figure-" + index));
    Plotly.react("figure-" + index, data, layout, options);
  });
  document.querySelectorAll(".swatch").forEach((swatch) => {
    swatch.dataset.colour ??= swatch.getAttribute("style");
    swatch.setAttribute("style", themed(swatch.dataset.colour));
  });
}
draw();
dark.addEventListener("change", draw);

// The rows behind a plot: series, x, y, and half of the interval where there is one.
function rows({ data, layout }) {
  const plain = (text) => new DOMParser().parseFromString(text ?? "", "text/html").body.textContent;
  const heads = ["series", plain(layout.xaxis.title?.text) || "x", plain(layout.yaxis.title?.text) || "y", "±"];
  const of = ({ name, x, y, error_y }) => x.map((value, at) => [plain(name), value, y[at], error_y?.array?.[at] ?? ""]);
  const all = [heads, ...data.flatMap(of)];
  return all.every((row, at) => at === 0 || row[3] === "") ? all.map((row) => row.slice(0, 3)) : all;
}

function csv(figure) {
  const cell = (value) => (/[",\n]/.test(value) ? '"' + String(value).replaceAll('"', '""') + '"' : value);
  return rows(figure).map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function table(place, figure) {
  if (place.childElementCount === 0) {
    const element = place.appendChild(document.createElement("table"));
    rows(figure).slice(0, 1001).forEach((row, at) => {
      const line = element.insertRow();
      row.forEach((value) => {
        const cell = line.appendChild(document.createElement(at === 0 ? "th" : "td"));
        cell.textContent = value;
      });
    });
  }
  place.hidden = !place.hidden;
}

document.querySelectorAll("button[data-take]").forEach((button) => {
  const { figure: index, take } = button.dataset;
  const figure = () => JSON.parse(source)[index];
  const name = (button.closest("figure").querySelector("h3")?.textContent ?? "figure").replace(/[^\w]+/g, "-");
  button.addEventListener("click", () => {
    if (take === "svg") Plotly.downloadImage("figure-" + index, { format: "svg", filename: name, width: 900, height: 500 });
    if (take === "table") table(document.getElementById("data-" + index), figure());
    if (take === "csv") {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv(figure())], { type: "text/csv" }));
      link.download = name + ".csv";
      link.click();
    }
  });
});

// Contents of pages with several sections.
const headings = [...document.querySelectorAll("main h2")];
if (headings.length > 3) {
  const contents = document.createElement("nav");
  contents.setAttribute("aria-label", "contents");
  headings.forEach((heading, at) => {
    heading.id ||= "section-" + at;
    const link = contents.appendChild(document.createElement("a"));
    link.textContent = heading.textContent;
    link.setAttribute("href", "#" + heading.id);
  });
  document.querySelector("header")?.after(contents);
}
