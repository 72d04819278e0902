// The plotting library, loaded with the first chart.

const LIBRARY = "/static/vendor/plotly.min.js";
let library;

/** Resolve to Plotly. */
export function loadPlotly() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = LIBRARY;
    script.onload = () => resolve(globalThis.Plotly);
    script.onerror = () => reject(new Error("The plotting library could not be loaded."));
    document.head.append(script);
  });
  return library;
}
