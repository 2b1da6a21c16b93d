/* Styles do nothing in jsdom. */
module.exports = {};
