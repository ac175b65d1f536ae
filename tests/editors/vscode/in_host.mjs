// Starts VS Code with the extension's source folder and runs in_host_tests.cjs INSIDE its extension host.
import path from "node:path";
import { check, config, finish, open, page, prepare, screenshot, server } from "./host.mjs";

prepare({ "a.py": "def f(a, b):\n    ret\n" });
server.rules([{ anchor: "^\\s*", texts: ["return a + b"], command: true }]);

let ended;
const exit = new Promise((resolve) => { ended = resolve; });
await check("the tests inside the extension host", async () => {
  await open({
    // A built workbench honours the two paths of the payload only with this flag.
    args: ["--enable-smoke-test-driver"],
    payload: (uri) => [
      ["extensionDevelopmentPath", uri(config.extension)],
      ["extensionTestsPath", uri(path.join(import.meta.dirname, "in_host_tests.cjs"))],
    ],
    onPage: async () => {
      await page.exposeFunction("codeAutomationLog", (_kind, words) => {
        const line = words.join(" ");
        if (/^(ok|FAILED) /.test(line)) console.log(line);
      });
      await page.exposeFunction("codeAutomationExit", (code) => { ended(code); });
    },
  });
  const timeout = new Promise((resolve) => { setTimeout(() => { resolve("no end in time"); }, 120_000); });
  const code = await Promise.race([exit, timeout]);
  if (code !== 0) {
    await screenshot("failed-in-host");
    throw new Error(`the run inside the extension host ended with ${code}`);
  }
});
await finish();
