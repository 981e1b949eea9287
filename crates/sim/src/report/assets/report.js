"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const options = { responsive: true, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
figures.forEach(({ data, layout }, index) => {
  Plotly.newPlot("figure-" + index, data, layout, options);
});
