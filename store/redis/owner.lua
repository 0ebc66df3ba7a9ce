-- A portion of the records that a process keeps of slots without an ID: those of the
-- owner ARGV[3], among the keys that are like ARGV[2], from the cursor ARGV[1] on.
local page = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', 2000)
local found = {page[1]}
for _, key in ipairs(page[2]) do
	local head = redis.pcall('GETRANGE', key, 0, 23)
	if type(head) == 'string' and string.sub(head, 1, 8) == ARGV[3] and string.sub(head, 17) == ARGV[4] then
		found[#found + 1] = key
	end
end
return found
