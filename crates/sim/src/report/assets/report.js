"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const options = { responsive: true, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };

// Between two of 1, 2, 5, 10 a logarithmic axis would have no tick at all: there the library chooses them.
function ticks(axis, values) {
  const shown = values.flat().filter((value) => value > 0);
  if (axis?.type === "log" && Math.max(...shown) < 4 * Math.min(...shown)) delete axis.dtick;
}

figures.forEach(({ data, layout }, index) => {
  if (data.every(({ x, y }) => Array.isArray(x) && Array.isArray(y) && x.length + y.length < 1000)) {
    ticks(layout.xaxis, data.map(({ x }) => x));
    ticks(layout.yaxis, data.map(({ y }) => y));
  }
  Plotly.newPlot("figure-" + index, data, layout, options);
});
