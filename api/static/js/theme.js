// Before anything is shown: light or dark, as the machine has it or as was chosen here.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  const apply = (name) => {
    root.dataset.theme = name;
    dispatchEvent(new Event("theme"));
  };
  apply(kept() || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", () => { if (!kept()) apply(dark.matches ? "dark" : "light"); });
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", () => {
      const name = root.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("theme", name); } catch { /* private windows keep nothing */ }
      apply(name);
    });
  });
})();
