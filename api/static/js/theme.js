// Light or dark, as the system has it or as the user chose. This is not a module, so that it runs before the
// first paint.
(() => {
  const root = document.documentElement;
  const darkPreference = matchMedia("(prefers-color-scheme: dark)");

  function readChoice() {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // private windows may have no storage
    }
  }

  function storeChoice(theme) {
    try {
      localStorage.setItem("theme", theme);
    } catch {
      // The choice then lasts as long as the page.
    }
  }

  function applyTheme(theme) {
    root.dataset.theme = theme;
    root.classList.toggle("dark-mode", theme === "dark"); // read by the style sheet of Swagger UI
    dispatchEvent(new Event("theme")); // charts and maps draw themselves again
  }

  function applyPreference() {
    applyTheme(darkPreference.matches ? "dark" : "light");
  }

  function toggleTheme() {
    const theme = root.dataset.theme === "dark" ? "light" : "dark";
    storeChoice(theme);
    applyTheme(theme);
  }

  const choice = readChoice();
  if (choice) applyTheme(choice);
  else applyPreference();
  darkPreference.addEventListener("change", () => {
    if (!readChoice()) applyPreference();
  });
  addEventListener("DOMContentLoaded", () => {
    document.getElementById("theme").addEventListener("click", toggleTheme);
  });
})();
