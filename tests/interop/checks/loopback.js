// Required before a server that would listen on every interface: it listens on loopback alone, and says on which port.

const net = require("node:net");

const { listen } = net.Server.prototype;

net.Server.prototype.listen = function (port, ...rest) {
  this.once("listening", () => console.log(`PORT ${this.address().port}`));
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ...rest);
};
