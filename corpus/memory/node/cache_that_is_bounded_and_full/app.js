// A weather service. Its cache holds 10,000 forecasts and is full from the start; each new one pushes the oldest out.
'use strict';

let seed = 6;
function random(bound) {
  seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
  return Math.floor((seed / 2 ** 32) * bound);
}

class Forecast {
  constructor(place) {
    this.place = 'place ' + place;
    this.hours = Array.from({ length: 24 }, (_, hour) => ({ hour, degrees: random(40) - 10, rain: random(100) }));
  }
}

class ForecastCache {
  constructor(bound) {
    this.bound = bound;
    this.entries = new Map();
  }

  get(place) {
    let forecast = this.entries.get(place);
    if (forecast) {
      this.entries.delete(place);
    } else {
      forecast = new Forecast(place);
      if (this.entries.size >= this.bound) this.entries.delete(this.entries.keys().next().value);
    }
    this.entries.set(place, forecast);
    return forecast;
  }
}

function handleForecast(cache) {
  return cache.get(random(1e6)).hours[0].degrees;
}

const cache = new ForecastCache(10000);
for (let i = 0; i < 100000; i++) handleForecast(cache);
console.log('ready');
const requests = setInterval(() => {
  for (let i = 0; i < 5; i++) handleForecast(cache);
}, 10);
setTimeout(() => clearInterval(requests), 120000);
