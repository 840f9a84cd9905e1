import { render } from "preact";

const root = document.getElementById("app");
if (root) render(<p>The console is on its way.</p>, root);
