// Runs one of the cases of a script; a case that fails throws, and Node.js ends with another code.

/** Ends the process when the case is done, or when it has waited in vain. */
export async function run(cases, name) {
  setTimeout(() => {
    console.error(`${name} waited in vain`);
    process.exit(1);
  }, 50_000).unref();
  await cases[name]();
  process.exit(0);
}
