from found import searches as searches
