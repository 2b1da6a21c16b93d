/* A drawing is its source, as it is for the builder. */
module.exports = { process: source => ({ code: `module.exports = ${JSON.stringify(source)};` }) };
