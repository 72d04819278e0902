import { $ } from "./dom.js";
import { post } from "./rest.js";

$("#login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const said = $(".error");
  said.textContent = "";
  try {
    await post("/v1/session", { token: $("#token").value });
    location.reload();
  } catch (problem) {
    said.textContent = problem.status === 401 ? "That is no token of this service." : problem.message;
  }
});
