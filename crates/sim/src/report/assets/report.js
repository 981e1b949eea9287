"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const options = { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };
figures.forEach(({ data, layout }, index) => {
  Plotly.newPlot("figure-" + index, data, layout, options);
});
