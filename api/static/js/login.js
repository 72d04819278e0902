// The page that asks for a token.
import { $ } from "./common/dom.js";
import { post } from "./common/rest.js";

async function logIn(event) {
  event.preventDefault();
  const errorBox = $(".error");
  errorBox.textContent = "";
  try {
    await post("/v1/session", { token: $("#token").value });
    location.reload();
  } catch (error) {
    errorBox.textContent = error.status === 401 ? "This token is not valid." : error.message;
  }
}

$("#login").addEventListener("submit", logIn);
