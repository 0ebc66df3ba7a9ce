-- The twin of window.go. The debits are in the cell's log, which whoever runs this brings:
--
--	log.n             how many debits there are
--	log:get(i)        at and n of the i-th oldest, from 1
--	log:set(i, at, n) changes it
--	log:push(at, n)   adds a youngest
--	log:shift()       drops the oldest
--	log:remove(i)     drops the i-th

local ENTRIES = 4096 -- WindowEntries

local function gone(l, at, now) return now - at >= l.per end

local function step(l, at) return floor(at / max(1, floor(l.per / ENTRIES))) end

local function steadywindow(l, c, now)
	if c.at <= now then return now end
	if c.at - now <= l.per then return c.at end
	c.at = now
	for i = 1, c.log.n do
		local at, n = c.log:get(i)
		if at > now then c.log:set(i, now, n) end
	end
	return now
end

local function expire(l, c, now)
	while c.log.n > 0 do
		local at, n = c.log:get(1)
		if not gone(l, at, now) then return end
		c.log:shift()
		c.used, c.at = c.used - n, now
	end
end

-- The time until so many units of the oldest debits have left the window.
local function waitwindow(l, c, now, units)
	for i = 1, c.log.n do
		local at, n = c.log:get(i)
		units = units - n
		if units <= 0 then return l.per - (now - at) end
	end
	return l.per
end

-- The verdict, and the time at which the units would be debited.
local function fitwindow(l, c, now, n)
	if n < 0 or n > l.max or l.max <= 0 then return NEVER, now end
	now = steadywindow(l, c, now)
	expire(l, c, now)
	if n > 0 and c.used > l.max - n then
		return waitwindow(l, c, now, c.used - (l.max - n)), now
	end
	return PASS, now
end

local function debit(l, c, now, n)
	c.at = now
	n = min(n, MOST - c.used)
	if n <= 0 then return end
	c.used = c.used + n
	local k = c.log.n
	if k > 0 then
		local at, before = c.log:get(k)
		local coarse = l.max > ENTRIES or k >= ENTRIES
		if at == now or coarse and step(l, at) == step(l, now) then
			c.log:set(k, now, before + n)
			return
		end
	end
	c.log:push(now, n)
end

local function givewindow(l, c, now, at, n)
	now = steadywindow(l, c, now)
	expire(l, c, now)
	if n < 0 then return debit(l, c, now, -n) end
	-- The first debit that is not older. Times in a log do not go back.
	local from, to = 1, c.log.n + 1
	while from < to do
		local middle = floor((from + to) / 2)
		if c.log:get(middle) < at then from = middle + 1 else to = middle end
	end
	if from > c.log.n then return end
	local when, have = c.log:get(from)
	if when > at and (l.max <= ENTRIES or step(l, when) ~= step(l, at)) then return end
	local back = min(n, have)
	c.used = c.used - back
	if have == back then c.log:remove(from) else c.log:set(from, when, have - back) end
end

-- Units in the window, and the times until one more and until all are there.
local function levelwindow(l, c, now)
	if l.max <= 0 then return 0, 0, 0 end
	now = max(now, c.at)
	local first, used = 1, c.used
	while first <= c.log.n do
		local at, n = c.log:get(first)
		if not gone(l, at, now) then break end
		first, used = first + 1, used - n
	end
	if used == 0 then return 0, 0, 0 end
	local oldest = c.log:get(first)
	local youngest = c.log:get(c.log.n)
	local wait = l.per - (now - oldest)
	if used >= l.max then wait = waitwindow(l, c, now, c.used - l.max + 1) end
	return used, wait, l.per - (now - youngest)
end
